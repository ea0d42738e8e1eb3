mod descriptors;
mod file_systems;
mod hostile;
mod life;
mod memory;
mod messages;
mod rig;
