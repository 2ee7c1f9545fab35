"""Parts of pages: each draws one thing about a plan or a candidate."""
