mod encryption;
mod refusals;
mod rig;
mod segmentation;
mod tmp_speed;
mod turns;
mod verification;
