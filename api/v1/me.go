package v1

import "time"

// Me is whoever asks.
type Me struct {
	Name string `json:"name"`
	// Groups are sorted.
	Groups []string `json:"groups"`
	// Operator says that the hub's own token was shown: everything is allowed.
	Operator bool `json:"operator,omitempty"`
	// Verbs are what may be done to the fleet: view, sync, edit, admin, and apart from these metrics, hint, audit.
	Verbs []string `json:"verbs"`
	// Expires is when the credential does; nil: never.
	Expires *time.Time `json:"expires,omitempty"`
	// Login is how they logged in with a token from elsewhere, or to the page; nil: a token of the fleet's was sent.
	Login *Login `json:"login,omitempty"`
}

// Login is what let somebody in.
type Login struct {
	// Through is provider/NAME or federation/NAME, as access/ of the installation repo has them, or token: a token of the fleet's, or the
	// hub's own, opened the page.
	Through string `json:"through"`
	// Subject is whom the token was about: its sub claim. It is empty where a token of the fleet's was shown.
	Subject string `json:"subject"`
	// Shown is what the provider calls the person. Others may be called so too.
	Shown string `json:"shown,omitempty"`
}

// UserToken is one of a user's own, as the installation repo has it.
type UserToken struct {
	// Name is the user's own for it.
	Name string `json:"name"`
	// ID is the end of its hash, to tell two of one name apart. Nobody can log in with it.
	ID string `json:"id"`
	// Expires is missing for one that is good until it is deleted.
	Expires *time.Time `json:"expires,omitempty"`
	// Expired says that it is good no longer.
	Expired bool `json:"expired,omitempty"`
	// Current says that this request came with it, or with a login that it began.
	Current bool `json:"current,omitempty"`
}

// UserTokenList is as the installation repo has it, and empty for whoever is no user of the fleet.
type UserTokenList struct {
	Items []UserToken `json:"items"`
}

// LoginProvider is an OpenID Connect provider with which people log in.
type LoginProvider struct {
	Name     string `json:"name"`
	Issuer   string `json:"issuer"`
	ClientID string `json:"clientID"`
	// ClientSecret is what some providers want of a public client. It is no secret.
	ClientSecret string `json:"clientSecret,omitempty"`
	// Scopes are asked for besides openid; empty: the client chooses.
	Scopes []string `json:"scopes,omitempty"`
	// Device says that somebody may log in with a code that is typed in on another device.
	Device bool `json:"device,omitempty"`
}

// LoginProviderList is sorted by name.
type LoginProviderList struct {
	Items []LoginProvider `json:"items"`
}

// ExchangePath is where a token from elsewhere is exchanged for a session.
const ExchangePath = "/v1/auth/exchange"

// Where somebody who is logged in gets a ticket, and where a browser shows it.
const (
	TicketPath = "/v1/auth/page-ticket"
	OpenPath   = "/auth/open"
)

// PageTicket logs a browser in to the hub's page as whoever asked for it, once. It belongs behind the # of path, whence it is sent nowhere.
type PageTicket struct {
	Ticket string `json:"ticket"`
	// Path is that of the page which takes the ticket. It asks for confirmation first; ?return=PATH behind it is where it leads then.
	Path    string    `json:"path"`
	Expires time.Time `json:"expires"`
}

// What an exchange is called in RFC 8693.
const (
	GrantTokenExchange   = "urn:ietf:params:oauth:grant-type:token-exchange" //nolint:gosec // a name
	TokenTypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"       //nolint:gosec // a name
	TokenTypeJWT         = "urn:ietf:params:oauth:token-type:jwt"            //nolint:gosec // a name
	TokenTypeAccessToken = "urn:ietf:params:oauth:token-type:access_token"   //nolint:gosec // a name
)

// ExchangeRequest asks for a session (RFC 8693). It is sent as a form.
type ExchangeRequest struct {
	// GrantType is urn:ietf:params:oauth:grant-type:token-exchange.
	GrantType string `json:"grant_type"`
	// SubjectToken is a provider's ID token for the fleet's client, or one of a federation whose only audience is the hub's URL.
	SubjectToken string `json:"subject_token"`
	// SubjectTokenType is urn:ietf:params:oauth:token-type:id_token, or that of jwt.
	SubjectTokenType string `json:"subject_token_type"`
}

// ExchangeAnswer is a session: a bearer token for the hub.
type ExchangeAnswer struct {
	AccessToken string `json:"access_token"`
	// IssuedTokenType is urn:ietf:params:oauth:token-type:access_token.
	IssuedTokenType string `json:"issued_token_type"`
	// TokenType is Bearer.
	TokenType string `json:"token_type"`
	// ExpiresIn is in seconds.
	ExpiresIn int64 `json:"expires_in"`
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
