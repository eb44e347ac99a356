//! HTTP/1 towards clients: heads, framing, bodies. Sans I/O, strict.
