"""Care of what is stored: backup, restore, the daily check, everything derived again."""
