//! The configuration file: text to a checked Config, or complaints.
