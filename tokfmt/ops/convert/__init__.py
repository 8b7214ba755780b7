"""Run `tokfmt convert`: turn a request into a result, in stages.

    request.Request -> resolve.Resolved -> prepare.Prepared -> write.Written -> request.Conversion

Each stage is a function that returns a frozen value, and the next stage takes that value. `convert.carry_out` calls the
stages in this order. If records are copied to JSON Lines, copy_lines replaces prepare and write. For a dry run, dry_run
replaces every stage after resolve. Each module imports only the modules above it:

arrangement  the split and the order of each sequence
request      the request, and the result
notes        the messages that a conversion reports while it runs
destination  the path, format and options of the destination
refusals     checks that options, sources and formats go together
losses       the losses, and a check that the user accepts them
resolve      stage 1: open the sources, refuse what cannot be done
axis         all sources as one token axis
space        free space on the file system
verify       read a destination back, and compare it with the source
upload       publication in a store
tasks_in_stores  the work of tasks whose destination is in a store
resume       the state of an interrupted run, and a check that this request may continue it
workplace    the hidden directories where destinations are built, and the workers
prepare      stage 2: read the sources, find what is lost
write        stage 3: write and verify each portion
lines        records as JSON Lines
copy_lines   stages 2 and 3 for records that are copied
parts        tasks of text that write files of their own to a folder in a store
status       the state of the tasks of a destination
results      the result of a conversion
dry_run      the result that a dry run reports
manifests    the manifests beside the destinations
publish      stage 4: describe what was written, and make it visible in one step
pipes        standard input and output
spread       a conversion as tasks on a cluster whose workers share only the store of the destination
convert      the functions that the command line and Python call

A task of a cluster (`--task I/N`) runs the same stages. If the sources hold text, it ends after prepare; if they hold
token IDs, after write. A run with --finish publishes. A task of text whose destination is in a store is a conversion of
its own (`parts`). A destination in a store is built in a spool (`core.spool`) and published by `upload`.
"""
