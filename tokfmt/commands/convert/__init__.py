"""Run `tokfmt convert`. `convert.convert_files` is the flow, from the request to the published dataset: read it first.

request          what the user asks for, and the result
arrangement      the splits, and the order of the sequences in each
inputs           the sources, found and opened
destination      the format and its options, the contents, the separator and the lead that are written
checks           every refusal, in order
losses           what is lost, and whether the user accepts it
tokenizer_notes  what a tokenizer does with the sources
gather           all sources as one token axis
separators       the axis that a writer stores, with separators and leads
write            the regions of a portion, read back and counted
lines            records that are copied to JSON Lines
verify           a destination that is read back and compared
report           the result, also of a dry run
pipes            standard input and output
space            free space on the file system

workplace        the hidden directories where destinations are built, and the workers
resume           the state of an interrupted run, and a check that this request may continue it
manifests        the manifests beside the destinations
publish          describe what was written, and make it visible in one step
upload           publication in a store
parts            tasks of text that write files of their own to a folder in a store
status           the state of the tasks of a destination
tasks_in_stores  the work of tasks whose destination is in a store
spread           a conversion as tasks on a cluster whose workers share only the store of the destination

A task of a cluster (`--task I/N`) runs the same flow. If the sources hold text, it ends once its part is tokenized; if
they hold token IDs, once its part is written. A run with --finish publishes.
"""
