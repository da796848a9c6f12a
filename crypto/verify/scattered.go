package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
)

// bundle gathers the annotations of an old keyless signature into the bundle that newer ones are, with the digest that
// it is a signature over. It believes nothing.
func (s Simple) bundle() (*bundle.Bundle, []byte, error) {
	signature, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return nil, nil, errors.New("the signature's annotation is not base64")
	}
	block, _ := pem.Decode([]byte(s.Certificate))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, nil, errors.New("the certificate's annotation is not PEM")
	}
	chain := &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}}}
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: chain},
	}
	if s.Bundle != "" {
		entry, err := logEntry(s.Bundle)
		if err != nil {
			return nil, nil, err
		}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if s.Timestamp != "" {
		var timestamp struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(s.Timestamp), &timestamp); err != nil {
			return nil, nil, errors.New("the timestamp's annotation cannot be read")
		}
		stamps := []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: timestamp.SignedRFC3161Timestamp}}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{Rfc3161Timestamps: stamps}
	}
	sum := sha256.Sum256(s.Payload)
	b, err := bundle.NewBundle(&protobundle.Bundle{
		MediaType:            "application/vnd.dev.sigstore.bundle+json;version=0.1",
		VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature:     signature,
		}},
	})
	return b, sum[:], err
}

// logEntry reads the annotation in which cosign kept what the transparency log promised.
func logEntry(annotation string) (*protorekor.TransparencyLogEntry, error) {
	var kept struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	var body struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	unreadable := errors.New("the transparency log's annotation cannot be read")
	if err := json.Unmarshal([]byte(annotation), &kept); err != nil {
		return nil, unreadable
	}
	log, err := hex.DecodeString(kept.Payload.LogID)
	if err != nil || json.Unmarshal(kept.Payload.Body, &body) != nil {
		return nil, unreadable
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex:          kept.Payload.LogIndex,
		LogId:             &protocommon.LogId{KeyId: log},
		KindVersion:       &protorekor.KindVersion{Kind: body.Kind, Version: body.APIVersion},
		IntegratedTime:    kept.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: kept.SignedEntryTimestamp},
		CanonicalizedBody: kept.Payload.Body,
	}, nil
}
