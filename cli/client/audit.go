package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Audit is one page of who did what where, on all replicas, the newest first.
func (c *Client) Audit(ctx context.Context, q v1.AuditQuery, continued string) (*v1.AuditList, error) {
	values := url.Values{}
	for name, value := range map[string]string{
		"person": q.Person, "cluster": q.Cluster, "verb": q.Verb, "decision": q.Decision, "since": moment(q.Since), "until": moment(q.Until),
		"continue": continued,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[v1.AuditList](ctx, c, "/v1/audit", values)
}

// AuditChunk is one piece of the audit log of all replicas, byte by byte, the oldest lines of each first.
func (c *Client) AuditChunk(ctx context.Context, since time.Time, continued string) (*v1.AuditChunk, error) {
	return get[v1.AuditChunk](ctx, c, "/v1/audit/chain", url.Values{"since": {moment(since)}, "continue": {continued}})
}

// AuditPeople says when everybody did something last.
func (c *Client) AuditPeople(ctx context.Context) (*v1.AuditPeople, error) {
	return get[v1.AuditPeople](ctx, c, "/v1/audit/people", nil)
}

// moment is a time in a query; none is empty.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
