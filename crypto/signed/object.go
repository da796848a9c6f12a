package signed

// Object is a git commit or tag, taken apart for verification.
type Object struct {
	// Kind is "commit" or "tag".
	Kind string
	// Payload is what was signed, byte for byte; Signature is armored, and empty when there is none.
	Payload, Signature []byte
}
