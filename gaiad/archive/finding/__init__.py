"""From a query or a filter to ranked pages and packets."""
