// Package verify owns the verification of signatures of commits and images.
//
// It refuses to know where anything was fetched from, and what follows from a verdict: keys, objects and signatures
// come in as bytes, and an error says in words for people why something is not vouched for. Nothing here asks the
// network, a keyring or a program: what is not among the keys given is not trusted.
//
// A raw git object goes through [Split] to [Keys.Git]; a chart's provenance file goes to [Keys.Chart]; what a registry
// holds beside an image, [Signatures], goes to an [Image], which is either [Keys] or made of a [Keyless].
package verify

import (
	"errors"
	"fmt"
)

// The verdicts other than "good". Each error of this package about a signature wraps one of them.
var (
	// ErrUnsigned means that there is no signature at all.
	ErrUnsigned = errors.New("not signed")
	// ErrUnknownKey means that somebody signed who is not among the keys; the error says which key it was.
	ErrUnknownKey = errors.New("signed by a key that is not trusted here")
	// ErrBad means that the signature is not one over this content, or that what it rests on does not hold.
	ErrBad = errors.New("the signature does not hold")
	// ErrExpired means that the key, or the signature itself, was not valid at the time that counts.
	ErrExpired = errors.New("not valid at this time")
	// ErrRevoked means that the key's owner has withdrawn it.
	ErrRevoked = errors.New("the key has been revoked")
	// ErrNamespace means that the signature, or the key, is for another purpose.
	ErrNamespace = errors.New("made for another purpose")
	// ErrWeak means an algorithm or a key size that others can break.
	ErrWeak = errors.New("too weak to count")
	// ErrOther means that the signature is good, and speaks of something else: another image, another chart.
	ErrOther = errors.New("the signature vouches for something else")
	// ErrMalformed means that what was given is no signature, or not one that every program reads alike.
	ErrMalformed = errors.New("malformed signature")
)

// errChanged is the usual way for a signature not to hold.
var errChanged = fmt.Errorf("%w: it is not over this content, which was changed after it was signed", ErrBad)
