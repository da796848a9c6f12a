// Package tail owns the agent's own log, for people who read it through the hub.
//
// It refuses to know who asks, and where the log is written.
package tail

import (
	"context"
	"strings"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/logring"
)

// Lines is how many lines of its log an agent keeps in memory.
const Lines = 2000

// Logs sends the wanted lines of a ring, until they are over, ctx ends, or send fails.
func Logs(ctx context.Context, ring *logring.Ring, req *tunnelapi.LogsRequest, send func(*tunnelapi.LogLine) error) error {
	query := logring.Query{Tail: int(max(req.GetTail(), 0)), Follow: req.GetFollow(), Service: req.GetService()}
	return ring.Read(ctx, query, func(l logring.Line) error {
		return send(&tunnelapi.LogLine{
			UnixMs: l.Time.UnixMilli(), Level: strings.ToLower(l.Level.String()), Message: l.Message, Attributes: l.Attributes,
		})
	})
}
