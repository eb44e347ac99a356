//! Files below a site's root: which one is meant, whether it may leave, and in what form.
