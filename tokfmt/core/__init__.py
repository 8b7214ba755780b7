"""The vocabulary of formats: token axis, records, readers and writers, findings, inspections. Imports numpy only."""
