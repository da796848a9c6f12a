package gateway

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pluralsh/plural/api"
)

// What an agent says is a stranger's text: a service's message may quote any manifest.
const (
	// maxEntries bounds the entries of all lists together before anything is decoded: two bytes make an entry, and each costs
	// a hundred in memory.
	maxEntries  = 50_000
	maxServices = 10_000
	maxProblems = 50
	maxTests    = 50
	maxNotes    = 20
	maxNames    = 50
	maxMessage  = 1024
	maxLog      = 4 << 10
	maxName     = 253
	maxKey      = 128
	maxVersion  = 256
	maxWord     = 64
)

// checkEntries counts the entries of a report's lists without decoding it. What is malformed the decoder refuses.
func checkEntries(body []byte) error {
	if countEntries(body, (*api.Report)(nil).ProtoReflect().Descriptor(), 0) > maxEntries {
		return fmt.Errorf("report has more than %d entries", maxEntries)
	}
	return nil
}

// countEntries adds the entries of a message's lists, at any depth, to n. It goes on until there are too many.
func countEntries(message []byte, of protoreflect.MessageDescriptor, n int) int {
	for number, value := range entries(message) {
		field := of.Fields().ByNumber(number)
		if field == nil {
			continue
		}
		if field.IsList() {
			n++
		}
		if field.Message() != nil {
			n = countEntries(value, field.Message(), n)
		}
		if n > maxEntries {
			return n
		}
	}
	return n
}

// entries walks the length-delimited fields of a message.
func entries(message []byte) iter.Seq2[protowire.Number, []byte] {
	return func(yield func(protowire.Number, []byte) bool) {
		for len(message) > 0 {
			num, kind, tag := protowire.ConsumeTag(message)
			if tag < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(num, kind, message[tag:])
			if size < 0 {
				return
			}
			if kind == protowire.BytesType {
				value, _ := protowire.ConsumeBytes(message[tag:])
				if !yield(num, value) {
					return
				}
			}
			message = message[tag+size:]
		}
	}
}

// clip bounds every text and list of a report.
func clip(r *api.Report) {
	r.AgentVersion = short(r.GetAgentVersion(), maxWord)
	r.KubernetesVersion = short(r.GetKubernetesVersion(), maxWord)
	r.Boot = short(r.GetBoot(), maxWord)
	r.Root = short(r.GetRoot(), maxWord)
	clipHeld(r.GetHeld())
	i := r.GetTokenIssuer()
	if len(i.GetKeys()) > api.MaxIssuerBytes || len(i.GetIssuer()) > api.MaxIssuer || !utf8.ValidString(i.GetIssuer()) {
		r.TokenIssuer = nil // a part of a key verifies nothing
	}
	r.Services = first(r.GetServices(), maxServices)
	for _, s := range r.GetServices() {
		clipService(s)
	}
}

func clipService(s *api.ServiceReport) {
	s.Service = short(s.GetService(), maxName)
	s.Key = short(s.GetKey(), maxKey)
	s.AppliedKey = short(s.GetAppliedKey(), maxKey)
	s.QuarantinedKey = short(s.GetQuarantinedKey(), maxKey)
	s.AppliedVersion = short(s.GetAppliedVersion(), maxVersion)
	s.Message = short(s.GetMessage(), maxMessage)
	clipHeld(s.GetHeld())
	s.Notes = shortAll(first(s.GetNotes(), maxNotes), maxMessage)
	s.Problems = first(s.GetProblems(), maxProblems)
	for _, p := range s.GetProblems() {
		p.Group = short(p.GetGroup(), maxName)
		p.Kind = short(p.GetKind(), maxName)
		p.Namespace = short(p.GetNamespace(), maxName)
		p.Name = short(p.GetName(), maxName)
		p.Reason = short(p.GetReason(), maxWord)
		p.Message = short(p.GetMessage(), maxMessage)
	}
	s.Tests = first(s.GetTests(), maxTests)
	for _, t := range s.GetTests() {
		t.Name = short(t.GetName(), maxName)
		t.Key = short(t.GetKey(), maxKey)
		t.Message = short(t.GetMessage(), maxMessage)
		t.Log = end(t.GetLog(), maxLog)
	}
}

func clipHeld(h *api.Held) {
	if h == nil {
		return
	}
	h.Token = short(h.GetToken(), maxWord)
	h.Message = short(h.GetMessage(), maxMessage)
	h.Names = shortAll(first(h.GetNames(), maxNames), 3*maxName)
}

// first cuts a list in a way that frees the rest.
func first[T any](list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	return slices.Clone(list[:most])
}

func short(s string, most int) string {
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return strings.ToValidUTF8(s, "")
}

func shortAll(list []string, most int) []string {
	for i := range list {
		list[i] = short(list[i], most)
	}
	return list
}

// end is the end of a text: of what a program prints, the last lines say what went wrong.
func end(s string, most int) string {
	if len(s) > most {
		s = "..." + s[len(s)-most+3:]
	}
	return strings.ToValidUTF8(s, "")
}
