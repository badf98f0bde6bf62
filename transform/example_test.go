package transform_test

import (
	"fmt"
	"log"

	"github.com/stepahead-io/stepahead/transform"
)

func ExamplePlan() {
	plan, err := transform.ParsePlan([]byte(`{"plan": 1, "ops": [
		{"op": "DecodeImage"},
		{"op": "RandomResizedCrop", "size": 224},
		{"op": "RandomHorizontalFlip"},
		{"op": "Normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}]}`))
	if err != nil {
		log.Fatal(err)
	}
	agent, rest := plan.Cut()
	wire, _ := agent.Fixed()
	out, _ := plan.Fixed()
	fmt.Println("a worker gives", wire.Dtype, wire.Shape, "=", wire.Bytes(), "bytes")
	fmt.Println("the tail of", rest.Len(), "operator makes it", out.Dtype)

	// What will be drawn for sample 12 of epoch 3, if its picture has 500 x 375 pixels:
	drawn, err := agent.Resolve(500, 375, transform.Key{Seed: 7, Epoch: 3, Sample: 12})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range drawn.Steps {
		fmt.Println(step.Kind, "to", step.Width, "x", step.Height)
	}
	// Output:
	// a worker gives uint8 [224 224 3] = 150528 bytes
	// the tail of 1 operator makes it float32
	// crop to 164 x 145
	// resize to 224 x 224
}
