package ui

// Code is what the program ends with.
type Code int

// Exit codes, as `plural help exit-codes` tells them.
const (
	ExitOK     Code = 0
	ExitFailed Code = 1
	// ExitDiffers means differences, or an unhealthy fleet; only with --exit-code.
	ExitDiffers Code = 2
	// ExitLogin means that the hub does not know who asks.
	ExitLogin Code = 4
	// ExitPending means that --timeout ended before the work did.
	ExitPending     Code = 8
	ExitInterrupted Code = 130
)
