// Package tunnelapi owns the messages on the connection that an agent keeps open to its hub.
//
// It knows no transport and no HTTP. The agent dials, and is the server of what is defined here (channel.proto); the hub
// is its client.
package tunnelapi

import "google.golang.org/grpc/codes"

// Where an agent dials. The answer to a GET of Path is a switch to WebSocket, or to Upgrade for a connection that carries
// nothing else; Pipe is the same as a gRPC call.
const (
	Path     = "/tunnel/v1"
	Upgrade  = "plural-tunnel/1"
	PipePath = Pipe_Pipe_FullMethodName
)

// HubHeader stands on every answer of a hub to an agent that dials: a refusal without it is that of something in between.
const HubHeader = "Plural-Hub"

// NonceKey is the metadata with which a hub opens Control: what the agent has to sign with the cluster's key.
const NonceKey = "plural-nonce-bin"

// MinProtocol and MaxProtocol are the versions of this protocol that are spoken here.
const (
	MinProtocol = 1
	MaxProtocol = 1
)

const (
	// MaxData bounds the data of one frame, in bytes.
	MaxData = 32 << 10
	// MaxMessage bounds one message, in bytes.
	MaxMessage = 1 << 20
	// MaxHeaders bounds names with values of one head's headers, in bytes.
	MaxHeaders = 64 << 10
	// StreamWindow and ConnWindow are the flow control windows of a stream and of a connection, in bytes. They do not
	// grow: what a stopped reader costs is known.
	StreamWindow = 1 << 20
	ConnWindow   = 16 << 20
)

// Prefix stands before every user and group that a cluster sees: nobody can be impersonated that the cluster knows
// by itself.
const Prefix = "plural:"

// Capabilities of agents, as their Hello names them.
const (
	CanProxy   = "proxy"
	CanObjects = "objects"
	CanDiff    = "diff"
	CanLogs    = "logs"
)

// NotPassedOn is the code of a stream that another replica of the hub refuses before anything of it has gone to the agent.
const NotPassedOn = codes.FailedPrecondition
