mod hostile;
mod like_the_host;
mod link;
mod loss;
mod refusals;
mod rig;
mod states;
mod windows;
