// Package api owns the messages between hub and agents.
//
// It knows neither side. A poll is GET /agent/v1/poll with If-None-Match, answered by 304 or by a Poll message whose
// ETag is the root over everything the cluster should run; a bundle is GET /bundles/{key}; a Report is POSTed to
// /agent/v1/report. The archive behind a bundle key is package bundle, the agent's credential package token, and
// what people's tools read is package v1.
package api

// Paths of the agent's side of the hub.
const (
	PollPath   = "/agent/v1/poll"
	ReportPath = "/agent/v1/report"
	// BundlePath is followed by a bundle key.
	BundlePath = "/bundles/"
)

// EditionHeader stands on every answer to a poll: "STREAM-N", where N grows with what the hub serves for as long as STREAM
// stays. Of two answers with one STREAM the lower N is the older, however late it comes.
const EditionHeader = "Plural-Edition"

// ContentType is the media type of every protobuf body.
const ContentType = "application/x-protobuf"

// Bounds that both sides hold each other to.
const (
	// MaxPollBytes bounds the answer to a poll: ten thousand services fit.
	MaxPollBytes = 16 << 20
	// MaxReportBytes bounds a report.
	MaxReportBytes = 1 << 20
	// MaxIssuerBytes bounds the keys of a TokenIssuer, and MaxIssuer its name.
	MaxIssuerBytes = 32 << 10
	MaxIssuer      = 512
)
