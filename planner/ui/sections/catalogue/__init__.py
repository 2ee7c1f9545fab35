"""Parts of the catalogue page: tables to browse, one entry in full, entries of a visitor's own."""
