mod loss;
mod refusals;
mod rig;
mod states;
mod windows;
