// Package terraform owns the running of one terraform module to the state that its inputs ask for.
//
// It refuses to know what a package is, where a sealed state is kept and who may deploy: a caller gives files, inputs
// and the newest state that it knows, and is given outputs and the state to keep. OpenTofu does as well as Terraform.
//
// A [Tool] is found on this machine; [Tool.Prepare] unpacks a module into a private folder and initialises it;
// [Work.Plan] says what would change, [Work.Apply] changes it, [Work.Destroy] takes it away. Inputs go by files of
// JSON, never by text put together, and never by arguments. What terraform says goes to the log line by line, without
// what is secret.
//
// Whoever is killed, nothing is made twice. Terraform writes to a file, so that it does not die of a reader that is gone;
// where the system can tell it, it ends after the resource that it is at when this process is killed; and a lock on the
// folder, which it inherits, makes the next run wait for it. What it left in the folder then counts, where that is newer.
package terraform
