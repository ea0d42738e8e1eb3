mod hostile;
mod life;
mod memory;
mod messages;
mod rig;
