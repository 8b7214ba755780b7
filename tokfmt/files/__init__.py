"""Places, their listings and open files; locks, publication, and what is replaced in one step. Imports numpy only."""
