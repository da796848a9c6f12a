package tunnel

import (
	"context"
	"crypto/tls"
	"testing"

	"google.golang.org/grpc"
)

// DialPeer is a connection to a replica as others have it, over which a test says what they would not.
func DialPeer(t *testing.T, address string, certificates *tls.Config) (*grpc.ClientConn, error) {
	p := &peers{certificates: certificates}
	t.Cleanup(p.close)
	return p.ready(context.Background(), "it", address)
}
