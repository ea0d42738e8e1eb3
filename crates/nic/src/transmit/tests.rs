mod encryption;
mod refusals;
mod rig;
mod segmentation;
mod turns;
mod verification;
