// Generics, interfaces, closures, maps, floating point, a panic that is recovered and a channel between goroutines.
package main

type number interface{ ~int | ~float64 }

type shape interface{ area() float64 }

type square struct{ side float64 }

func (s square) area() float64 { return s.side * s.side }

func sum[T number](values ...T) (total T) {
	for _, value := range values {
		total += value
	}
	return
}

func divide(by int) (result int, problem string) {
	defer func() {
		if fault := recover(); fault != nil {
			problem = fault.(error).Error()
		}
	}()
	return 10 / by, ""
}

func main() {
	counts := map[string]int{}
	for _, word := range []string{"one", "two", "one"} {
		counts[word]++
	}
	squares := make(chan int)
	go func() {
		defer close(squares)
		for index := range 4 {
			squares <- index * index
		}
	}()
	last := 0
	for value := range squares {
		last = value
	}
	var figure shape = square{1.5}
	_, problem := divide(0)
	println(sum(1, 2, 3), int(sum(0.5, 1.75)*100), counts["one"], last, int(figure.area()*100), problem)
}
