//! FastCGI: records, one exchange sans I/O, and a connection that drives it.
