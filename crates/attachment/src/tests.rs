mod attached;
mod hostile;
mod impostor;
mod listening;
mod requests;
mod rig;
mod shares;
mod slots;
