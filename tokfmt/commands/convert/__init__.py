"""Run `tokfmt convert`. `convert.convert_files` is the flow, from the request to the published dataset: read it first.

request      what the user asks for, the notes while it runs, and the result
inputs       the sources, found and opened; pipes and standard output
destination  the format and its options, the contents, the separator and the lead that are written
checks       every refusal, in order
losses       what is lost, and whether the user accepts it; what a tokenizer changes
gather       all sources as one token axis
arrangement  the splits, the order of the sequences in each, and the axis that a writer stores
publish      the hidden directories where destinations are built, the workers, and the publication in one step
write        the regions of a portion, read back and counted
lines        records that are copied to JSON Lines
verify       a destination that is read back and compared
report       the result, also of a dry run, and the manifests that state it
resume       the state of an interrupted run, and a check that this request may continue it
tasks        the records and states of tasks (`--task`, `--finish`), and folders that tasks of text write
spread       a conversion as tasks on a cluster whose workers share only the store of the destination

A task of a cluster (`--task I/N`) runs the same flow. If the sources hold text, it ends once its part is tokenized; if
they hold token IDs, once its part is written. A run with --finish publishes.
"""
