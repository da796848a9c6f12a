// Package terraform owns the run of one terraform module.
//
// It refuses to know what a package is, where a sealed state is kept and who may deploy: a caller gives files, inputs
// and the newest state that it knows, and is given outputs and the state to keep. OpenTofu does as well as Terraform.
//
// A [Tool] is found on this machine; [Tool.Prepare] unpacks a module into a private folder and initialises it;
// [Work.Plan] says what would change, [Work.Apply] changes it, [Work.Destroy] takes it away. Inputs go by files of
// JSON, never by text put together, and never by arguments. What terraform says goes to the log line by line, without
// what is secret.
//
// When this process is killed nothing is made twice: terraform writes to a file, so that it does not die of a reader that
// is gone, but does what it was told; and a lock on the folder, which it inherits, makes the next run wait for it. What
// it left in the folder then counts, where that is newer. When terraform is killed too, what it was at may be missing in
// its state, and is made again; OpenTofu, and either with a backend, may lose what it made in the last twenty seconds,
// or since it began where it was shorter: that is how often they write.
package terraform
