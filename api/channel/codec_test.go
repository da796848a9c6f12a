package channel_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/channel"
)

// frames are of every kind.
func frames() map[string]*channel.Frame {
	many := make([]*channel.Header, 100)
	for i := range many {
		many[i] = &channel.Header{Name: "X-N", Value: strings.Repeat("v", i)}
	}
	return map[string]*channel.Frame{
		"nothing": {},
		"a question": {Request: &channel.RequestHead{
			Id: "abc", Method: "GET", Target: "/api/v1/pods?limit=5", Class: channel.Class_UNARY,
			Headers: []*channel.Header{{Name: "Accept", Value: "application/json"}, {Name: "X-Empty"}, {}},
			Identity: &channel.Identity{
				User: "plural:ana", Uid: "1", Groups: []string{"plural:devs", ""}, Cluster: "edge", ExpiresUnixMs: 1 << 41,
				Extra: []*channel.Extra{{Key: "plural.sh/credential", Values: []string{"c1", ""}}, {}},
			},
		}},
		"a body of unknown length": {Request: &channel.RequestHead{Id: "a", Method: "POST", Target: "/ä", ContentLength: -1}},
		"an empty head":            {Request: &channel.RequestHead{}, Response: &channel.ResponseHead{}, Trailer: &channel.Trailer{}},
		"an answer": {
			Response: &channel.ResponseHead{Status: 200, Headers: many, ContentLength: 5}, Data: []byte("hello"),
			Trailer: &channel.Trailer{Headers: []*channel.Header{{Name: "Grpc-Status", Value: "0"}}},
		},
		"strange numbers": {
			Request: &channel.RequestHead{Class: -1, ContentLength: -1 << 63}, Response: &channel.ResponseHead{Status: -5, ContentLength: 1<<63 - 1},
		},
		"much":            {Data: bytes.Repeat([]byte("x"), channel.MaxData)},
		"nobody's header": {Trailer: &channel.Trailer{Headers: []*channel.Header{nil}}},
	}
}

func TestFramesAreWrittenAndReadAsProtobuf(t *testing.T) {
	for name, frame := range frames() {
		t.Run(name, func(t *testing.T) {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(frame)
			if err != nil {
				t.Fatal(err)
			}
			got, err := channel.Codec{}.Marshal(frame)
			if err != nil || !bytes.Equal(got.Materialize(), want) {
				t.Errorf("%x in place of %x, %v", got.Materialize(), want, err)
			}
			got.Free()
			same(t, want)
		})
	}
}

// same fails when the codec and protobuf do not read the same.
func same(t *testing.T, wire []byte) {
	t.Helper()
	want, got := &channel.Frame{}, &channel.Frame{Data: []byte("of before"), Trailer: &channel.Trailer{}}
	wrong := proto.Unmarshal(wire, want)
	kept := bytes.Clone(wire)
	err := channel.Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(kept)}, got)
	clear(kept) // nothing of it may be needed any more
	if (err == nil) != (wrong == nil) {
		t.Fatalf("%x: %v where protobuf says %v", wire, err, wrong)
	}
	if err == nil && !proto.Equal(want, got) {
		t.Errorf("%x: %v where protobuf reads %v", wire, got, want)
	}
}

func TestWhatIsOutOfTheOrdinaryIsReadAsProtobufDoes(t *testing.T) {
	head := func(fields ...byte) []byte { return protowire.AppendBytes([]byte{1<<3 | 2}, fields) }
	for name, wire := range map[string][]byte{
		"a field of a newer version":        {15<<3 | 0, 1},
		"one inside":                        head(15<<3|0, 1),
		"a head in two parts":               append(head(1<<3|2, 1, 'a'), head(2<<3|2, 1, 'b')...),
		"an identity in two parts":          head(5<<3|2, 3, 1<<3|2, 1, 'a', 5<<3|2, 3, 2<<3|2, 1, 'b'),
		"data twice":                        {3<<3 | 2, 1, 'a', 3<<3 | 2, 1, 'b'},
		"empty data":                        {3<<3 | 2, 0},
		"a name twice":                      {4<<3 | 2, 8, 1<<3 | 2, 6, 1<<3 | 2, 1, 'a', 1<<3 | 2, 1, 'b'},
		"no text":                           head(1<<3|2, 1, 0xff),
		"a tag of two bytes":                {0x8a, 0x00, 0},
		"a tag of nothing":                  head(0, 0),
		"a tag of nothing, outside":         {0, 0},
		"a length that leads out":           {1<<3 | 2, 9, 1},
		"a length inside that leads out":    head(1<<3|2, 9),
		"a length of eleven bytes":          head(1<<3|2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"a number that ends too early":      head(7<<3|0, 0x80),
		"a number that is longer than need": head(7<<3|0, 0x81, 0x00),
		"a class that is too large":         head(6<<3|0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f),
		"a number as a text":                head(1<<3|0, 1),
		"a group":                           head(1<<3|3, 1<<3|4),
	} {
		t.Run(name, func(t *testing.T) { same(t, wire) })
	}
	for name, frame := range map[string]*channel.Frame{
		"the target":  {Request: &channel.RequestHead{Target: "/\xff"}},
		"a group":     {Request: &channel.RequestHead{Identity: &channel.Identity{Groups: []string{"\xff"}}}},
		"an extra":    {Request: &channel.RequestHead{Identity: &channel.Identity{Extra: []*channel.Extra{{Key: "\xff"}}}}},
		"a header":    {Response: &channel.ResponseHead{Headers: []*channel.Header{{Value: "\xff"}}}},
		"in the tail": {Trailer: &channel.Trailer{Headers: []*channel.Header{{Name: "\xff"}}}},
	} {
		if _, err := (channel.Codec{}).Marshal(frame); err == nil {
			t.Errorf("%s is written although it is no text", name)
		}
	}
}

func TestOtherMessagesPassTheCodec(t *testing.T) {
	wire, err := channel.Codec{}.Marshal(&channel.HubMessage{Sync: &channel.Sync{Services: []string{"web"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got channel.HubMessage
	if err := (channel.Codec{}).Unmarshal(wire, &got); err != nil || got.GetSync().GetServices()[0] != "web" {
		t.Errorf("%v, %v", &got, err)
	}
	if _, err := (channel.Codec{}).Marshal("text"); err == nil {
		t.Error("a text is taken for a message")
	}
}

func FuzzFramesAreReadAsProtobufDoes(f *testing.F) {
	for _, frame := range frames() {
		wire, err := proto.Marshal(frame)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		same(t, wire)
		var frame channel.Frame
		if proto.Unmarshal(wire, &frame) != nil {
			return
		}
		written, err := channel.Codec{}.Marshal(&frame)
		if err != nil {
			t.Fatal(err)
		}
		var again channel.Frame
		if err := proto.Unmarshal(written.Materialize(), &again); err != nil || !proto.Equal(&frame, &again) {
			t.Errorf("%v became %v, %v", &frame, &again, err)
		}
	})
}

func BenchmarkQuestionAndAnswer(b *testing.B) {
	all := frames()
	question, answer := all["a question"], all["an answer"]
	b.ReportAllocs()
	for b.Loop() {
		for _, frame := range []*channel.Frame{question, answer} {
			wire, err := channel.Codec{}.Marshal(frame)
			if err == nil {
				err = channel.Codec{}.Unmarshal(wire, new(channel.Frame))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
