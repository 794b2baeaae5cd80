"""Short texts in several scripts, by which tokenizers are looked at beside each other."""

from __future__ import annotations

from typing import Final

SAMPLE_TEXTS: Final = {
    "English": "Krill are small crustaceans that live in all oceans; a swarm may weigh two million tonnes.",
    "German": "Der Krill lebt in großen Schwärmen und ist die wichtigste Nahrung der Bartenwale.",
    "Russian": "Криль живёт большими стаями и служит пищей китам, тюленям и пингвинам.",
    "Arabic": "يعيش الكريل في أسراب كبيرة ويتغذى عليه الحيتان.",
    "Hindi": "क्रिल बड़े झुंडों में रहते हैं और व्हेल का मुख्य भोजन हैं।",
    "Chinese": "磷虾成群地生活在海洋中,是鲸鱼的主要食物。",
    "Japanese": "オキアミは大きな群れをつくり、クジラの主な餌になる。",
    "Python": "def swarm(krill: list[int]) -> int:\n    return sum(k * 2 for k in krill if k != 0)  # g\n",
    "Numbers": "3.14159, 1,234,567.89, 2024-11-18, 0x7fffffff, +49 30 123456",
}
