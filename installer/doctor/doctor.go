// Package doctor owns the checks of all that a fleet stands on.
package doctor
