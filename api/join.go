package api

// JoinPath is where an agent exchanges a join token for its registration: a POST of a JoinRequest as JSON, answered by a
// JoinAnswer. Its Authorization is a token signed with the key that the request brings, so that nobody registers a key that
// is not theirs, and so that an exchange whose answer was lost can be asked again by who made it, and by nobody else.
const JoinPath = "/v1/join"

// JoinRequest is what an agent brings that is not known to the hub yet.
type JoinRequest struct {
	Cluster string `json:"cluster"`
	// Token is the join token, good for this cluster, once.
	Token string `json:"token"`
	// Auth and Age are the public halves of the agent's fresh keys.
	Auth string `json:"auth"`
	Age  string `json:"age"`
}

// JoinAnswer is what the agent is registered as.
type JoinAnswer struct {
	Cluster string `json:"cluster"`
	HubURL  string `json:"hubURL"`
	// Repository is the id of the installation repo whose sealed files the agent may open; empty when nothing is sealed.
	Repository string `json:"repository,omitempty"`
}

// MaxJoinBytes bounds either.
const MaxJoinBytes = 64 << 10
