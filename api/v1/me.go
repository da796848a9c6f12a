package v1

import "time"

// Me is whoever asks.
type Me struct {
	Name string `json:"name"`
	// Groups are sorted.
	Groups []string `json:"groups"`
	// Operator says that the hub's own token was shown: everything is allowed.
	Operator bool `json:"operator,omitempty"`
	// Verbs are what may be done to the fleet: view, sync, edit, admin, and for tools metrics, hint.
	Verbs []string `json:"verbs"`
	// Expires is when the credential does; nil: never.
	Expires *time.Time `json:"expires,omitempty"`
}

// KubeTokenRequest asks for a token for the API of one cluster.
type KubeTokenRequest struct {
	Cluster string `json:"cluster"`
}

// KubeToken is a bearer token for /k8s/CLUSTER/, and good for nothing else.
type KubeToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}
