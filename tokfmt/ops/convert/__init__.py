"""`tokfmt convert`: a request becomes a result in stages, each a frozen value that the next one is made of.

    request.Request -> resolve.Resolved -> prepare.Prepared -> write.Written -> request.Conversion

`convert.carry_out` calls the stages in this order; copy_lines takes the place of prepare and write where records are
copied to JSON lines, and dry_run that of all that follows resolve. Each module imports only those above it:

arrangement  which sequences go to which split, in which order
request      what a conversion is asked to do, and what it answers
notes        what it reports while it runs
destination  where it writes, and in which form
refusals     what does not go together
losses       what it would lose, and whether that was accepted
resolve      stage 1: open the sources, refuse what cannot be done
axis         all sources as one token axis
space        room on the file system
verify       read a destination back, and compare it
resume       what an interrupted run left, and whether it may be continued
workplace    the hidden places where destinations are built, and the workers
prepare      stage 2: read the sources, settle what is lost
write        stage 3: write and verify each portion
lines        records as JSON lines
copy_lines   stages 2 and 3 of such records
results      the result of what was written
dry_run      the result of what would be written
manifests    the manifests beside the destinations
publish      stage 4: describe what was written, and make it visible in one step
pipes        standard input and output
convert      the functions that the command line and Python call

A task of a cluster (`--task I/N`) goes through the same stages: of text it ends with prepare, of IDs with write; a run
with --finish publishes. A destination elsewhere is a matter of workplace and publish, a source elsewhere of resolve.
"""
