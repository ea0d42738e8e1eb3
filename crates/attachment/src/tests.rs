mod hostile;
mod requests;
mod rig;
mod slots;
