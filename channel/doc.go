// Package channel owns the synced folder of one project and everything computed from it: the layout and format of its files,
// the local store of verified records, the index over them, and every write.
//
// It promises:
//
//   - The folder is a mailbox, the store is the truth. A record exists from the moment it is durable in the store; deleting,
//     renaming or restoring files in the folder can delay knowledge and never remove or reverse it.
//   - Only records whose signature holds under a key that the channel's root admitted enter the store, each after its
//     predecessor. Nothing in the folder can stop a pass: what cannot be read is named in a report and skipped.
//   - State is a function of the set of records. Arrival order, batches, repetitions, restarts and the state of the index do
//     not matter; [Channel.Verify] recomputes everything from the bytes, in a [Replica], and compares. Of a number that was
//     signed twice nothing counts, until the roster names the branch to keep.
//   - A file is written once, under a name that holds its hash. The same sequence number is never signed twice: appending
//     happens under one lock for all writers of this machine, after reading everything that has arrived, and what is appended
//     is durable before it becomes a file.
//   - The cost of a pass with nothing new does not grow with the history.
//
// It never decides by a clock, a file's time or the order of arrival; never follows a symlink or waits for a FIFO in the
// folder; never runs a process, and never opens the network: moving the folder is the work of a carrier.
//
// The folder, where every name that is not one of these is counted and not opened:
//
//	w/<writer>/t/<eeee>-<ssssssssss>-<id32>.fr               one record: epoch, number, first 32 hex digits of its id
//	w/<writer>/p/<eeee>-<ssssssssss>-<ssssssssss>-<id32>.fp  a pack: the exact bytes of the records of a range
//	w/<writer>/beat                                          that the writer is there; the one file that is replaced
//	w/<writer>/r/<other>/t, …/p                              what a writer relays of another, byte for byte
//	j/<invite16>/<writer>.fj                                 a request to join
//
// The signature of a record decides what it is, not where it lies: a record counts the same from its own file, a pack and a
// relay. The directories of writers whom nobody admitted are not opened, but for one first record that may be a recovery's
// root, and for requests to join by a live invite. What one writer can make this machine read in a day is bounded (Limits),
// and a file that was refused is not opened again before it changes.
//
// A writer puts back its own files that are missing; a member relays those of others when they have been missing for a
// while. Nobody removes a file of another writer, and a writer removes its own loose files only after they are in a pack
// that everybody has (Writer.SealLoose).
//
// A record may stand without its body, in its bare form, where the master's redaction names it: the header and the signatures
// still prove its place, and what it says is what the redaction says. A machine takes the bodies that a redaction replaces out of
// its store, its own files and its index.
//
// The state directory, readable by its owner only, one for each channel:
//
//	store.log    "ferrylg1", the channel's id, then one frame for each record in the order of ingest:
//	             "\xf5FR" | 'o' (signed here) or 'f' (foreign) | length | CRC-32C of kind, length and record | the record's exact bytes
//	             "O" and "F" are the same with zeros in the place of the body, once that was taken out
//	store.punch  while bodies are being taken out: which
//	index.db     SQLite over store.log up to an offset that is kept in it; deleted or damaged, it is rebuilt
//	store.lock   held while anything is appended or indexed
//
// A write, where a crash between any two steps leaves the record or nothing, never another one:
//
//	lock → catch up with store and folder → decide and sign → append, fsync → index → create the files → unlock
package channel
