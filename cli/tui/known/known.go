// Package known owns what the console knows of the fleet.
package known

// Fleet is what is known of a fleet. Only one goroutine may use it.
type Fleet struct{}

// Source is where it comes from.
type Source interface{}
