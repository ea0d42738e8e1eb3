mod bits;
mod hostile;
mod life;
mod rig;
mod specification;
mod spreading;
