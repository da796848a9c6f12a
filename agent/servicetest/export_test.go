package servicetest

import (
	"context"
	"net"
)

// DialWith makes a Runner reach Services by name with dial: where tests run, no DNS knows them.
func (r *Runner) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	r.dial = dial
}

// Dial is how a Runner reaches Services by name.
func (r *Runner) Dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	return r.dial
}
