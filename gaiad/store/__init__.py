"""SQLite files: connections, one writer thread a file, migrations, jobs, online backup. Owns no domain table."""
