"""What a tenant holds: its folder and tables, and the way in for files and documents."""
