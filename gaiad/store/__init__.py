"""SQLite files: connections, one writer thread a file, numbered migrations, jobs, online backup. Owns no domain table."""
