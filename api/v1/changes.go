package v1

import (
	"encoding/json"
	"time"
)

// Summary is the fleet in figures.
type Summary struct {
	Commit Commit `json:"commit"`
	// Head is the newest commit seen; Refused counts what is wrong with it.
	Head    Commit `json:"head"`
	Refused int    `json:"refused"`
	// Held counts causes for which services have nothing good to offer now.
	Held        int    `json:"held"`
	Clusters    Counts `json:"clusters"`
	Services    Counts `json:"services"`
	Deployments Counts `json:"deployments"`
}

// Event is something that happened, for people.
type Event struct {
	Time    time.Time `json:"time"`
	Cluster string    `json:"cluster,omitempty"`
	Service string    `json:"service,omitempty"`
	// Reason is one word, such as Applied, Degraded or Silent.
	Reason string `json:"reason"`
	// Warning is set for what somebody should look at.
	Warning bool   `json:"warning,omitempty"`
	Message string `json:"message,omitempty"`
	// Key is the deployment's that it is about.
	Key string `json:"key,omitempty"`
}

// Connection is one that an agent keeps open to the hub.
type Connection struct {
	Cluster string `json:"cluster"`
	// Name is the connection's in logs; Replica holds it.
	Name    string `json:"name"`
	Replica string `json:"replica,omitempty"`
	// Host is the agent's pod or host.
	Host string `json:"host,omitempty"`
	// Boot is a digest that tells the agent's processes apart; it has no order.
	Boot              string    `json:"boot,omitempty"`
	Since             time.Time `json:"since"`
	AgentVersion      string    `json:"agentVersion,omitempty"`
	KubernetesVersion string    `json:"kubernetesVersion,omitempty"`
	// Streams counts the requests under way on it.
	Streams int `json:"streams"`
}

// ChangeKind is the name of one kind of a stream's events, and of the list that they change.
type ChangeKind string

// Kinds of events of GET /v1/stream. The data of the first three is Changes of their type, of ChangedSources that of Source,
// of ChangedUpgrades that of Upgrade; of ChangedSummary it is a Summary, of Happened Changes of Event. Reset says that changes were missed: what is shown has to
// be listed again; its data is an Error.
const (
	ChangedDeployments ChangeKind = "deployments"
	ChangedClusters    ChangeKind = "clusters"
	ChangedServices    ChangeKind = "services"
	ChangedSources     ChangeKind = "sources"
	ChangedUpgrades    ChangeKind = "upgrades"
	ChangedSummary     ChangeKind = "summary"
	Happened           ChangeKind = "events"
	Reset              ChangeKind = "reset"
)

// Words are all kinds that can be asked for.
func (ChangeKind) Words() []string {
	return []string{
		string(ChangedDeployments), string(ChangedClusters), string(ChangedServices), string(ChangedSources), string(ChangedUpgrades),
		string(ChangedSummary), string(Happened),
	}
}

// Changes are the newest state of what changed since the event before, several changes of one item as one.
type Changes[T any] struct {
	Items []T `json:"items,omitempty"`
	// Gone are names of what is there no more, or fits the filter no more: those of its kind, CLUSTER/SERVICE for a
	// deployment. Some may never have been shown.
	Gone []string `json:"gone,omitempty"`
}

// StreamEvent is one event of a stream: its name and its data, which is JSON.
type StreamEvent struct {
	Kind ChangeKind      `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// SyncRequest asks clusters for a pass now.
type SyncRequest struct {
	// Clusters are those to ask, when a service is named in the path; none: all that it is meant for.
	Clusters []string `json:"clusters,omitempty"`
	// Services are those to look at, when a cluster is named in the path; none: all.
	Services []string `json:"services,omitempty"`
}

// Synced says who was asked.
type Synced struct {
	Asked int `json:"asked"`
	// Absent counts the clusters whose agent is not connected now: they come by themselves. Names are the first of them.
	Absent int      `json:"absent"`
	Names  []string `json:"names,omitempty"`
}
