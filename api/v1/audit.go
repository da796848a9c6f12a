package v1

import "time"

// AuditRecord is one line of a hub's audit log, under the names that it has there: an act, or the beginning of one that takes a while.
type AuditRecord struct {
	Time time.Time `json:"time"`
	// ID names the request, here, in the agent's log and in the cluster's own audit log.
	ID string `json:"id"`
	// Stage is start or end.
	Stage string `json:"stage"`

	Person   string   `json:"person"`
	Groups   []string `json:"groups,omitempty"`
	Operator bool     `json:"operator,omitempty"`
	// Credential names the token that was shown, never is it.
	Credential string `json:"credential,omitempty"`

	// Source is the address that the request came from; Forwarded is what the request itself says about that.
	Source    string `json:"source,omitempty"`
	Forwarded string `json:"forwarded,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	// ClientID is what the client calls the request.
	ClientID string `json:"client_id,omitempty"`

	Cluster string `json:"cluster,omitempty"`
	// Connection is that of the agent which took the request.
	Connection string `json:"connection,omitempty"`

	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path has no query.
	Path string `json:"path,omitempty"`

	// Decision is allowed, denied or limited.
	Decision string `json:"decision"`
	// Status is that of the answer; 0 when there was none.
	Status   int   `json:"status,omitempty"`
	BytesIn  int64 `json:"bytes_in,omitempty"`
	BytesOut int64 `json:"bytes_out,omitempty"`
	// Duration is how long an act took that is over, in nanoseconds.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// Cause says why it ended, or was denied.
	Cause string `json:"cause,omitempty"`

	// Prev is the SHA-256 of the line before, in hex.
	Prev string `json:"prev"`
}

// Written is when the line was: that of an act's end when it was over.
func (r *AuditRecord) Written() time.Time {
	if r.Stage == "end" {
		return r.Time.Add(r.Duration)
	}
	return r.Time
}

// AuditQuery says which records are wanted. What is empty picks all.
type AuditQuery struct {
	Person, Cluster, Verb, Decision string
	// Since and Until bound when the line was written.
	Since, Until time.Time
	// Limit is the most records of a page.
	Limit int
}

// AuditEntry is a record with the replica that wrote it.
type AuditEntry struct {
	Replica string `json:"replica"`
	// Hash is the SHA-256 of the line as it stands in the replica's file, in hex, without its line feed.
	Hash   string      `json:"hash"`
	Record AuditRecord `json:"record"`
}

// AuditList is a page of the record of all replicas, the newest first.
type AuditList struct {
	Items []AuditEntry `json:"items"`
	// Next continues the list: pass it as ?continue=. A page that ends where enough was read may be short, or empty, and go on.
	Next string `json:"next,omitempty"`
	// Missing are the replicas that could not be asked: what they wrote is not in the list.
	Missing []string `json:"missing"`
}

// AuditChunk is a piece of one replica's record, byte by byte. One chunk continues the other, the oldest first, replica after replica.
type AuditChunk struct {
	// Replica wrote it, into File, whose lines before this are Line many.
	Replica string `json:"replica"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line"`
	// Text are whole lines, each with a line feed; empty: the replica has no more.
	Text []byte `json:"text"`
	// Next continues with the next chunk: pass it as ?continue=. Empty: this is the last.
	Next string `json:"next,omitempty"`
	// Missing are the replicas that could not be asked.
	Missing []string `json:"missing"`
}

// AuditPeople says who did something last, and when.
type AuditPeople struct {
	Items []AuditPerson `json:"items"`
	// Since is when the oldest line was written that was read of every replica: what was before is not known.
	Since time.Time `json:"since"`
	// Missing are the replicas that could not be asked: what people did there is not known.
	Missing []string `json:"missing"`
}

// AuditPerson is somebody who did something, or was denied it.
type AuditPerson struct {
	Person string `json:"person"`
	// Operator says that it was with the hub's own token.
	Operator bool      `json:"operator,omitempty"`
	Last     time.Time `json:"last"`
}
