// Package privacy owns the protection of a process's memory from other processes of its user.
//
// It refuses to know what secrets are in there, and how the programs are kept that the process starts: they may be a person's
// own, whose core files are theirs to have.
package privacy

// Close has this process write no core file and, where the kernel can, lets nobody but root read its memory and the environment
// that it was started with, or take it over as a debugger does. Programs that it starts are as open as any.
func Close() error { return closeMemory() }
