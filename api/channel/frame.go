package channel

import (
	"bytes"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The tags of fields: their numbers of channel.proto, with how their values are written.
const (
	tagVarint = 0
	tagBytes  = 2

	tagRequest, tagResponse, tagData, tagTrailer = 1<<3 | tagBytes, 2<<3 | tagBytes, 3<<3 | tagBytes, 4<<3 | tagBytes

	tagID, tagMethod, tagTarget, tagAsked = 1<<3 | tagBytes, 2<<3 | tagBytes, 3<<3 | tagBytes, 4<<3 | tagBytes
	tagIdentity, tagClass, tagAskedLength = 5<<3 | tagBytes, 6<<3 | tagVarint, 7<<3 | tagVarint

	tagStatus, tagAnswered, tagAnsweredLength = 1<<3 | tagVarint, 2<<3 | tagBytes, 3<<3 | tagVarint

	tagTrailed = 1<<3 | tagBytes

	tagName, tagValue = 1<<3 | tagBytes, 2<<3 | tagBytes

	tagUser, tagUID, tagGroup   = 1<<3 | tagBytes, 2<<3 | tagBytes, 3<<3 | tagBytes
	tagExtra, tagBound, tagEnds = 4<<3 | tagBytes, 5<<3 | tagBytes, 6<<3 | tagVarint

	tagKey, tagOf = 1<<3 | tagBytes, 2<<3 | tagBytes
)

// ordinary says that a frame has nothing that its form does not say, and only text where it says text.
func ordinary(f *Frame) bool {
	if f == nil || len(f.unknownFields) > 0 {
		return false
	}
	if t := f.Trailer; t != nil && (len(t.unknownFields) > 0 || !ordinaryHeaders(t.Headers)) {
		return false
	}
	if r := f.Response; r != nil && (len(r.unknownFields) > 0 || !ordinaryHeaders(r.Headers)) {
		return false
	}
	r := f.Request
	return r == nil || len(r.unknownFields) == 0 && texts(r.Id, r.Method, r.Target) && ordinaryHeaders(r.Headers) &&
		ordinaryIdentity(r.Identity)
}

func ordinaryHeaders(list []*Header) bool {
	for _, h := range list {
		if h == nil || len(h.unknownFields) > 0 || !texts(h.Name, h.Value) {
			return false
		}
	}
	return true
}

func ordinaryIdentity(i *Identity) bool {
	if i == nil {
		return true
	}
	for _, e := range i.Extra {
		if e == nil || len(e.unknownFields) > 0 || !texts(e.Key) || !texts(e.Values...) {
			return false
		}
	}
	return len(i.unknownFields) == 0 && texts(i.User, i.Uid, i.Cluster) && texts(i.Groups...)
}

func texts(list ...string) bool {
	for _, s := range list {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}

// What follows gives sizes, without the tag and the length that stand before a part inside of another.

func sizeFrame(f *Frame) (n int) {
	if f.Request != nil {
		n += sizePart(sizeRequest(f.Request))
	}
	if f.Response != nil {
		n += sizePart(sizeResponse(f.Response))
	}
	if f.Trailer != nil {
		n += sizePart(sizeHeaders(f.Trailer.Headers))
	}
	if len(f.Data) > 0 {
		n += sizePart(len(f.Data))
	}
	return n
}

func sizePart(n int) int { return 1 + protowire.SizeBytes(n) }

func sizeText(s string) int {
	if s == "" {
		return 0
	}
	return sizePart(len(s))
}

func sizeNumber(n int64) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(n))
}

func sizeHeader(h *Header) int { return sizeText(h.Name) + sizeText(h.Value) }

func sizeHeaders(list []*Header) (n int) {
	for _, h := range list {
		n += sizePart(sizeHeader(h))
	}
	return n
}

func sizeRequest(r *RequestHead) int {
	n := sizeText(r.Id) + sizeText(r.Method) + sizeText(r.Target) + sizeHeaders(r.Headers) + sizeNumber(int64(r.Class)) +
		sizeNumber(r.ContentLength)
	if r.Identity != nil {
		n += sizePart(sizeIdentity(r.Identity))
	}
	return n
}

func sizeResponse(r *ResponseHead) int {
	return sizeNumber(int64(r.Status)) + sizeHeaders(r.Headers) + sizeNumber(r.ContentLength)
}

func sizeIdentity(i *Identity) int {
	n := sizeText(i.User) + sizeText(i.Uid) + sizeText(i.Cluster) + sizeNumber(i.ExpiresUnixMs)
	for _, g := range i.Groups {
		n += sizePart(len(g))
	}
	for _, e := range i.Extra {
		n += sizePart(sizeExtra(e))
	}
	return n
}

func sizeExtra(e *Extra) int {
	n := sizeText(e.Key)
	for _, v := range e.Values {
		n += sizePart(len(v))
	}
	return n
}

// What follows appends parts in the order of their fields.

func appendFrame(b []byte, f *Frame) []byte {
	if r := f.Request; r != nil {
		b = appendRequest(appendPart(b, tagRequest, sizeRequest(r)), r)
	}
	if r := f.Response; r != nil {
		b = appendPart(b, tagResponse, sizeResponse(r))
		b = appendNumber(b, tagStatus, int64(r.Status))
		b = appendHeaders(b, tagAnswered, r.Headers)
		b = appendNumber(b, tagAnsweredLength, r.ContentLength)
	}
	if len(f.Data) > 0 {
		b = append(appendPart(b, tagData, len(f.Data)), f.Data...)
	}
	if t := f.Trailer; t != nil {
		b = appendHeaders(appendPart(b, tagTrailer, sizeHeaders(t.Headers)), tagTrailed, t.Headers)
	}
	return b
}

func appendPart(b []byte, tag byte, size int) []byte {
	return protowire.AppendVarint(append(b, tag), uint64(size))
}

func appendText(b []byte, tag byte, s string) []byte {
	if s == "" {
		return b
	}
	return append(appendPart(b, tag, len(s)), s...)
}

func appendNumber(b []byte, tag byte, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, tag), uint64(n))
}

func appendHeaders(b []byte, tag byte, list []*Header) []byte {
	for _, h := range list {
		b = appendPart(b, tag, sizeHeader(h))
		b = appendText(b, tagName, h.Name)
		b = appendText(b, tagValue, h.Value)
	}
	return b
}

func appendRequest(b []byte, r *RequestHead) []byte {
	b = appendText(b, tagID, r.Id)
	b = appendText(b, tagMethod, r.Method)
	b = appendText(b, tagTarget, r.Target)
	b = appendHeaders(b, tagAsked, r.Headers)
	if i := r.Identity; i != nil {
		b = appendIdentity(appendPart(b, tagIdentity, sizeIdentity(i)), i)
	}
	b = appendNumber(b, tagClass, int64(r.Class))
	return appendNumber(b, tagAskedLength, r.ContentLength)
}

func appendIdentity(b []byte, i *Identity) []byte {
	b = appendText(b, tagUser, i.User)
	b = appendText(b, tagUID, i.Uid)
	for _, g := range i.Groups {
		b = append(appendPart(b, tagGroup, len(g)), g...)
	}
	for _, e := range i.Extra {
		b = appendPart(b, tagExtra, sizeExtra(e))
		b = appendText(b, tagKey, e.Key)
		for _, v := range e.Values {
			b = append(appendPart(b, tagOf, len(v)), v...)
		}
	}
	b = appendText(b, tagBound, i.Cluster)
	return appendNumber(b, tagEnds, i.ExpiresUnixMs)
}

// readFrame reads a frame of which every field is known, and those that there is one of come once; else it says false. Nothing of
// b is kept, and f may be left with a part.
func readFrame(b []byte, f *Frame) bool {
	for len(b) > 0 {
		tag := b[0]
		part, n := protowire.ConsumeBytes(b[1:])
		if n < 0 || tag&7 != tagBytes {
			return false
		}
		b = b[1+n:]
		ok := false
		switch {
		case tag == tagData && f.Data == nil:
			f.Data, ok = bytes.Clone(part), true
		case tag == tagRequest && f.Request == nil:
			f.Request, ok = readRequest(string(part))
		case tag == tagResponse && f.Response == nil:
			f.Response, ok = readResponse(string(part))
		case tag == tagTrailer && f.Trailer == nil:
			f.Trailer, ok = readTrailer(string(part))
		}
		if !ok {
			return false
		}
	}
	return true
}

// cursor reads the fields of one part, whose texts are pieces of it. It is bad once something was out of the ordinary.
type cursor struct {
	left string
	bad  bool
}

// next is the tag of the next field; 0 at the end, which is no field's.
func (c *cursor) next() (tag byte) {
	if c.left == "" || c.bad {
		return 0
	}
	tag, c.left = c.left[0], c.left[1:]
	return tag
}

func (c *cursor) number() (n uint64) {
	for shift := 0; shift < 63; shift += 7 {
		if len(c.left) <= shift/7 {
			break
		}
		b := c.left[shift/7]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			c.left = c.left[shift/7+1:]
			return n
		}
	}
	return c.long()
}

// long is a number of ten bytes, as negative ones are, or none.
func (c *cursor) long() uint64 {
	n, size := protowire.ConsumeVarint([]byte(c.left[:min(len(c.left), 10)]))
	if size < 0 {
		c.bad = true
		return 0
	}
	c.left = c.left[size:]
	return n
}

func (c *cursor) part() (part string) {
	n := c.number()
	if c.bad || n > uint64(len(c.left)) {
		c.bad = true
		return ""
	}
	part, c.left = c.left[:n], c.left[n:]
	return part
}

func (c *cursor) text() string {
	text := c.part()
	c.bad = c.bad || !utf8.ValidString(text)
	return text
}

// few headers are found without an allocation.
const few = 24

// readHeaders makes the headers that were found, all at once.
func readHeaders(found []string) ([]*Header, bool) {
	if len(found) == 0 {
		return nil, true
	}
	all, list := make([]Header, len(found)), make([]*Header, len(found))
	for i, part := range found {
		c, header := cursor{left: part}, &all[i]
		for tag := c.next(); tag != 0; tag = c.next() {
			switch tag {
			case tagName:
				header.Name = c.text()
			case tagValue:
				header.Value = c.text()
			default:
				c.bad = true
			}
		}
		if c.bad || c.left != "" {
			return nil, false
		}
		list[i] = header
	}
	return list, true
}

func readTrailer(part string) (*Trailer, bool) {
	found := make([]string, 0, few)
	c, t := cursor{left: part}, &Trailer{}
	for tag := c.next(); tag != 0; tag = c.next() {
		if tag != tagTrailed {
			return nil, false
		}
		found = append(found, c.part())
	}
	var ok bool
	t.Headers, ok = readHeaders(found)
	return t, ok && !c.bad && c.left == ""
}

func readResponse(part string) (*ResponseHead, bool) {
	found := make([]string, 0, few)
	c, r := cursor{left: part}, &ResponseHead{}
	for tag := c.next(); tag != 0; tag = c.next() {
		switch tag {
		case tagStatus:
			r.Status = int32(c.number()) //nolint:gosec // what protobuf does with what does not fit
		case tagAnswered:
			found = append(found, c.part())
		case tagAnsweredLength:
			r.ContentLength = int64(c.number()) //nolint:gosec // negative ones are written so
		default:
			return nil, false
		}
	}
	var ok bool
	r.Headers, ok = readHeaders(found)
	return r, ok && !c.bad && c.left == ""
}

func readRequest(part string) (*RequestHead, bool) {
	found := make([]string, 0, few)
	c, r := cursor{left: part}, &RequestHead{}
	for tag := c.next(); tag != 0; tag = c.next() {
		switch tag {
		case tagID:
			r.Id = c.text()
		case tagMethod:
			r.Method = c.text()
		case tagTarget:
			r.Target = c.text()
		case tagAsked:
			found = append(found, c.part())
		case tagIdentity:
			if r.Identity != nil { // which would have to be merged
				return nil, false
			}
			var ok bool
			if r.Identity, ok = readIdentity(c.part()); !ok {
				return nil, false
			}
		case tagClass:
			r.Class = Class(c.number()) //nolint:gosec // as in readResponse
		case tagAskedLength:
			r.ContentLength = int64(c.number()) //nolint:gosec // as in readResponse
		default:
			return nil, false
		}
	}
	var ok bool
	r.Headers, ok = readHeaders(found)
	return r, ok && !c.bad && c.left == ""
}

func readIdentity(part string) (*Identity, bool) {
	c, i := cursor{left: part}, &Identity{}
	for tag := c.next(); tag != 0; tag = c.next() {
		switch tag {
		case tagUser:
			i.User = c.text()
		case tagUID:
			i.Uid = c.text()
		case tagGroup:
			i.Groups = append(i.Groups, c.text())
		case tagExtra:
			e, ok := readExtra(c.part())
			if !ok {
				return nil, false
			}
			i.Extra = append(i.Extra, e)
		case tagBound:
			i.Cluster = c.text()
		case tagEnds:
			i.ExpiresUnixMs = int64(c.number()) //nolint:gosec // as in readResponse
		default:
			return nil, false
		}
	}
	return i, !c.bad && c.left == ""
}

func readExtra(part string) (*Extra, bool) {
	c, e := cursor{left: part}, &Extra{}
	for tag := c.next(); tag != 0; tag = c.next() {
		switch tag {
		case tagKey:
			e.Key = c.text()
		case tagOf:
			e.Values = append(e.Values, c.text())
		default:
			return nil, false
		}
	}
	return e, !c.bad && c.left == ""
}
