//! `libktls.so`: loaded before a program (`LD_PRELOAD`), it gives the program the socket API of kernel TLS on kernels that have none.
//!
//! It stands in the place of the C library's functions on file descriptors. What is not a TCP socket with the upper-layer protocol `tls` goes on to the C
//! library after one look into a table; what is goes to its [`kernel_tls::Session`].
//!
//! Descriptors that are closed behind its back (by `fclose`, or a system call of the program's own) are noticed when the next one of that number turns out
//! to be something else, or is made by a function that is seen here.
//!
//! `LONGSHORE_NIC` names the control socket of a NIC that is asked to do the records, and with `LONGSHORE_NIC_ZEROCOPY` files go to it without a copy.
//!
//! `LONGSHORE_KTLS_COUNTERS` names a file that the counters go to, which this program and its children share.

mod answer;
mod asynchronous;
mod calls;
mod descriptors;
mod epolls;
mod files;
mod next;
mod options;
mod receive;
mod send;
mod sets;
mod start;
mod streams;
mod table;
mod text;
mod wait;
